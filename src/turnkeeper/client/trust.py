"""Whose certificate is believed.

Of a service that is found by its data directory, its own: the service has written it there, for nobody else's eyes.
Whatever name it carries and whoever signed it, no other will do. Of any other address, as everywhere: what is signed by
somebody that this machine trusts, or by who SSL_CERT_FILE names.
"""

from __future__ import annotations

import ssl

import httpx

from turnkeeper.client.discovery import Address, Kept, Place


class Trusting:
    """A place that is looked up before every call, and whose certificate is known from then on."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: set[str] = set()
        self.context = _for_one() if isinstance(place, Kept) else httpx.create_ssl_context()

    @property
    def is_here(self) -> bool:
        return self._place.is_here

    def look(self) -> Address:
        address = self._place.look()
        if address.cert is not None and address.cert not in self._known:
            # One that was started anew may have a new one.
            self.context.load_verify_locations(cadata=address.cert)
            self._known.add(address.cert)
        return address

    def __str__(self) -> str:
        return str(self._place)


def _for_one() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = (
        False  # it is reached by an address of this machine, and the certificate names another
    )
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # who signed it is not asked
    return context
