"""Every stub below a folder through Python's own parser: `python checks/parse.py TREE`, a line for each refusal."""

import ast
import pathlib
import sys

ALLOWED = (ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.Assign, ast.AnnAssign)


def main(tree):
    refused = False
    for file in sorted(tree.rglob("*.pyi")):
        try:
            body = ast.parse(file.read_text(encoding="utf-8")).body
        except (SyntaxError, ValueError) as error:
            print(f"{file}: error: {error}")
            refused = True
            continue
        for node in body:
            if not isinstance(node, ALLOWED):
                print(f"{file}:{node.lineno}: error: {type(node).__name__} in a stub")
                refused = True
    sys.exit(refused)


main(pathlib.Path(sys.argv[1]))
