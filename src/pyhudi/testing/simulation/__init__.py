"""Simulator of concurrent writers on one store. It can run their steps in every order."""
