"""Runs models: providers, sessions, the worker process, and the proof on which provider each node ran."""
