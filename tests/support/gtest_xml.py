"""Runs a module's unittest cases and writes GoogleTest's XML, which scripts/test-summary counts."""
import pathlib
import sys
import unittest
import xml.etree.ElementTree as ElementTree


class Recorder(unittest.TextTestResult):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ran = []

    def startTest(self, test):
        self.ran.append(test)
        super().startTest(test)


def write_xml(result, path):
    suite = ElementTree.Element("testsuites")
    bad = {str(test): text for test, text in result.failures + result.errors}
    for test in result.ran:
        case = ElementTree.SubElement(suite, "testcase", classname=type(test).__name__,
                                      name=test._testMethodName, status="run")
        if str(test) in bad:
            ElementTree.SubElement(case, "failure").text = bad.pop(str(test))
    for name, text in bad.items():
        case = ElementTree.SubElement(suite, "testcase", classname="module", name=name, status="run")
        ElementTree.SubElement(case, "failure").text = text
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path)


def main(module, names, xml):
    """The exit status: 0 when something ran and all of it passed."""
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(resultclass=Recorder).run(suite)
    if xml:
        write_xml(result, xml)
    return 0 if result.wasSuccessful() and result.testsRun else 1
