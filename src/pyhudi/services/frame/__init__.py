"""The frame of table services: what a service is, the table of them, and what runs them."""
