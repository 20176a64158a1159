"""Seeded text of a given length. Every word is one token, with the space before it, in the
vocabularies of interest, so that a length in words is one in tokens."""

from __future__ import annotations

import random

_COMMON = """time person year way day thing man world life hand part child eye woman place work week
case point company number group problem fact water room mother area money story month lot right
study book word business issue side kind head house service friend father power hour game line end
member law car city name president team minute idea body back parent face level office door health
art war history party result change morning reason research girl guy moment air teacher force
education foot boy age policy music market sense nation plan college interest death experience
effect use class control field development role effort rate heart drug show leader light voice wife
police mind price report decision son view town road arm difference value building action season
society tax director position player record paper space ground form event official matter center
couple site project activity star table need court oil situation cost industry figure street image
phone data picture practice piece land product doctor wall patient worker news test movie north
love support technology step baby computer type attention film tree source hair window culture
chance brother energy period course summer plant term opportunity letter condition choice rule
daughter south husband floor campaign material population economy medical hospital church risk fire
future bank"""
WORDS = _COMMON.split()


def text(draw: random.Random, tokens: int) -> str:
    return "".join(f" {draw.choice(WORDS)}" for _ in range(tokens))
