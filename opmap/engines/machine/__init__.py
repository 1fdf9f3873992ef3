"""Facts about the machine on which a run takes place: adapters, drivers, Windows, installed packages.

Nothing here runs a model or changes a setting.
"""
