#!/usr/bin/env python3
"""Makes the small files of several pages in tests/cli/data, byte by byte, so that no library decides what is in them."""
import os
import struct

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
OME = ('<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0">'
       '<Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint8" SizeX="{w}" SizeY="{h}" SizeZ="{n}" SizeC="1" SizeT="1" '
       'PhysicalSizeX="0.5" PhysicalSizeY="0.25"><TiffData/></Pixels></Image></OME>')


def tiff(name, sizes, description):
    """Uncompressed grey pages; pixel (y, x) of page p is 70 p + 10 y + x."""
    out, links = bytearray(b"II*\0\0\0\0\0"), [4]
    for page, (w, h) in enumerate(sizes):
        pixels = bytes(70 * page + 10 * y + x for y in range(h) for x in range(w))
        text = description.format(w=w, h=h, n=len(sizes)).encode() + b"\0"
        where = len(out)
        out += pixels + text + b"\0" * (len(pixels + text) % 2)
        tags = [(256, 4, 1, w), (257, 4, 1, h), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
        if description:
            tags.append((270, 2, len(text), where + len(pixels)))
        tags += [(273, 4, 1, where), (277, 3, 1, 1), (278, 4, 1, h), (279, 4, 1, len(pixels))]
        struct.pack_into("<I", out, links[-1], len(out))
        out += struct.pack("<H", len(tags))
        for tag in tags:
            out += struct.pack("<HHII", *tag)
        links.append(len(out))
        out += b"\0\0\0\0"
    open(f"{DATA}/{name}", "wb").write(out)


def gif(name, w, h, delays):
    """Frames of one colour each; every code is 3 bits long, as a clear code comes before every pixel pair."""
    out = bytearray(b"GIF89a" + struct.pack("<HHBBB", w, h, 0x91, 0, 0))
    out += bytes([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255])
    out += b"\x21\xff\x0bNETSCAPE2.0\x03\x01" + struct.pack("<H", 3) + b"\0"
    for frame, delay in enumerate(delays):
        out += b"\x21\xf9\x04\x04" + struct.pack("<H", delay) + b"\0\0"
        out += b"\x2c" + struct.pack("<HHHHB", 0, 0, w, h, 0) + b"\x02"
        codes = []
        for i in range(w * h):
            codes += [4] * (i % 2 == 0) + [1 + frame % 3]
        bits = sum(code << 3 * i for i, code in enumerate(codes + [5]))
        data = bits.to_bytes((3 * len(codes) + 3 + 7) // 8, "little")
        out += bytes([len(data)]) + data + b"\0"
    open(f"{DATA}/{name}", "wb").write(out + b"\x3b")


tiff("pages.tif", [(6, 5)] * 3, OME)
tiff("unequal.tif", [(6, 5), (4, 3)], "")
gif("frames.gif", 4, 3, [7, 20, 50])
