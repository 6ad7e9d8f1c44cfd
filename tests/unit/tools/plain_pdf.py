"""Writes a small PDF of plain text by hand, so that tests need no library that makes one."""


def pdf_of(*pages: str) -> bytes:
    """A PDF with one page of 11-point Helvetica for each text; a line of the text is a line of the page."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(count))
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for n, text in enumerate(pages):
        shown = "".join(f"({_escaped(line)}) '\n" for line in text.splitlines())
        stream = f"BT /F1 11 Tf 14 TL 60 790 Td\n{shown}ET".encode("cp1252")
        resources = "<< /Font << /F1 3 0 R >> >>"
        page = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources {resources} /Contents {5 + 2 * n} 0 R >>"
        )
        bodies += [page.encode(), b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream)]
    return _file(bodies)


def _file(bodies: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(bodies, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    trailer = f"trailer\n<< /Size {len(bodies) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return bytes(out) + f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


def _escaped(line: str) -> str:
    return line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
