"""Word documents: what their text is, and that tracked changes leave everything else as it was."""

from __future__ import annotations

import re
import shutil
import subprocess
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import docx
import pytest
from docx.document import Document
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from reviser.errors import DataError
from reviser.markup.docx import BREAK, PART, Docx

LINK = (
    f'<w:hyperlink {nsdecls("w")} w:anchor="a"><w:r><w:rPr><w:u w:val="single"/></w:rPr>'
    "<w:t>teh link</w:t></w:r></w:hyperlink>"
)
FIELD = (
    f'<w:p {nsdecls("w")}><w:r><w:t xml:space="preserve">Page </w:t></w:r>'
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>'
    '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>teh 3</w:t></w:r>'
    '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    '<w:ins w:id="7" w:author="B"><w:r><w:t>teh</w:t></w:r></w:ins>'
    '<w:del w:id="8" w:author="B"><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>'
)


def made() -> bytes:
    """A document with bold runs, a table, a hyperlink, a field and another's tracked changes."""
    document: Document = docx.Document()
    document.add_heading("Teh report", 1)
    first = document.add_paragraph("I have rec")
    first.add_run("ie").bold = True
    first.add_run("ved < teh & letter.\tIt was").italic = True
    first._p.append(parse_xml(LINK))
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "teh cell", "fine"
    document.add_paragraph("")
    document.element.body.insert(-1, parse_xml(FIELD))
    target = BytesIO()
    document.save(target)
    return target.getvalue()


def resolved(data: bytes, *, is_accepted: bool) -> str:
    """The text with Reviser's changes accepted or rejected, by removing elements."""
    with ZipFile(BytesIO(data)) as package:
        xml = package.read(PART).decode()
    kept, gone = ("ins", "del") if is_accepted else ("del", "ins")
    own = r'<w:{0} w:id="\d+" w:author="Reviser"[^>]*>(.*?)</w:{0}>'
    xml = re.sub(own.format(gone), "", xml)
    xml = re.sub(own.format(kept), lambda found: found[1].replace("delText", "t"), xml)
    target = BytesIO()
    with ZipFile(BytesIO(data)) as old, ZipFile(target, "w") as new:
        for info in old.infolist():
            new.writestr(info, xml if info.filename == PART else old.read(info))
    return Docx(target.getvalue()).text


def changes_of(document: Docx, *pairs: tuple[str, str]) -> list[tuple[int, int, str]]:
    found = []
    for before, after in pairs:
        starts = [m.start() for m in re.finditer(re.escape(before), document.text)]
        spans = [(start, start + len(before), after) for start in starts]
        found += [
            (start, end, new)
            for start, end, new in spans
            if not any(low < end and start < high for low, high in document.locked)
        ]
    return sorted(found)


def test_the_text_of_a_document_has_its_paragraphs_cells_and_links() -> None:
    document = Docx(made())
    assert document.text.split(BREAK) == [
        "Teh report", "I have recieved < teh & letter.\tIt wasteh link", "teh cell", "fine", "",
        "Page teh 3teh",
    ]  # fmt: skip
    locked = [document.text[start:end] for start, end in document.locked]
    assert locked == [BREAK, "\t", BREAK, BREAK, BREAK * 2, "teh 3teh"]


def test_tracked_changes_can_be_accepted_or_rejected_and_nothing_else_changes() -> None:
    data = made()
    document = Docx(data)
    changes = changes_of(document, ("teh", "the"), ("Teh", "The"), ("recieved", "received"))
    changes = sorted([*changes, (len("Teh report"), len("Teh report"), "s")])
    assert len(changes) == 6
    tracked = document.tracked(changes)
    wanted = document.text
    for start, end, after in reversed(changes):
        wanted = wanted[:start] + after + wanted[end:]
    with ZipFile(BytesIO(data)) as old, ZipFile(BytesIO(tracked)) as new:
        assert old.namelist() == new.namelist()
        assert all(old.read(name) == new.read(name) for name in old.namelist() if name != PART)
        xml = new.read(PART).decode()
    assert resolved(tracked, is_accepted=True) == wanted
    assert resolved(tracked, is_accepted=False) == document.text
    # The bold letters stay bold where they are removed; what is inserted has a format, too.
    assert '<w:rPr><w:b/></w:rPr><w:delText xml:space="preserve">ie</w:delText>' in xml
    assert '<w:rPr><w:u w:val="single"/></w:rPr><w:t xml:space="preserve">the</w:t>' in xml
    numbers = re.findall(r'<w:(?:ins|del) w:id="(\d+)"', xml)
    assert len(numbers) == len(set(numbers))


def test_a_document_without_changes_keeps_every_byte_of_its_parts() -> None:
    data = made()
    with ZipFile(BytesIO(data)) as old, ZipFile(BytesIO(Docx(data).tracked([]))) as new:
        assert {n: old.read(n) for n in old.namelist()} == {n: new.read(n) for n in new.namelist()}


def broken(xml: bytes) -> bytes:
    target = BytesIO()
    with ZipFile(target, "w") as package:
        package.writestr(PART, xml)
    return target.getvalue()


@pytest.mark.parametrize(
    "data",
    [b"", b"no zip", broken(b"<a"), broken(b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"),
     broken(b"<a>" * 50_000 + b"</a>" * 50_000)],
)  # fmt: skip
def test_what_is_no_document_is_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(DataError, match="Word document"):
        Docx(data)


def test_libreoffice_opens_the_result(tmp_path: Path) -> None:
    if shutil.which("soffice") is None:
        pytest.skip("LibreOffice is not installed.")
    document = Docx(made())
    file = tmp_path / "a.docx"
    file.write_bytes(document.tracked(changes_of(document, ("recieved", "received"))))
    command = ["soffice", f"-env:UserInstallation=file://{tmp_path}/profile", "--headless",
               "--convert-to", "fodt", "--outdir", str(tmp_path), str(file)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    text = (tmp_path / "a.fodt").read_text("utf-8")
    assert text.count("<dc:creator>Reviser</dc:creator>") >= 2
    assert "<text:deletion>" in text
    assert "<text:insertion>" in text
