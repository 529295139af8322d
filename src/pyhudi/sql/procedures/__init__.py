"""The procedures of `CALL`: what each is named, what it takes, what it answers, and what it does."""
