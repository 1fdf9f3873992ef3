"""Running models: sessions, providers, and the proof of where a node ran."""
