"""Endpoints that Connect lacks. Beneath `/compat/{release}` that release answers 404 for them.

`operations` and `schemas` describe all endpoints, in the OpenAPI document.
"""
