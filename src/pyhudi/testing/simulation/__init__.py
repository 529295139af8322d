"""The simulator: writers on a simulated store, in every order that a schedule can name."""
