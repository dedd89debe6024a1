"""The Flower app: one request to every client (or more, in rounds), one aggregate back.

Its modules are imported where they are needed. ``client_app`` and ``server_app`` are what Flower loads; they need ``pip
install 'fedica[flower]'``. Certificates, keys and the app folder (``certs``, ``scaffold``) need nothing but fedica.
"""
