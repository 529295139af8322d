"""The systems that are compared, one module each; `protocol.py` says what each of them does."""
