"""Runs models and operators, each provider in its own way; knows the machine."""

from . import telemetry

__all__ = ["telemetry"]
