"""Examples made from each tool's schema: valid arguments must type-check against the stub, wrong ones must not.

    python checks/arguments.py TREE OUT

TREE is what the example `write_stubs` wrote. OUT gets a Python file a tool whose calls end in `# good` or `# bad`. Then,
with TREE on the search path of a type checker, run it over OUT and give its output to `--judge`:

    MYPYPATH=TREE mypy --namespace-packages --explicit-package-bases OUT > mypy.txt
    python checks/arguments.py --judge OUT mypy.txt

`jsonschema` decides which arguments are valid; the seed is fixed, so the files are the same on every run.
"""

import json
import pathlib
import random
import re
import shutil
import sys

import jsonschema

WRONG = {"string": 12345, "integer": "no", "number": "no", "boolean": "no", "array": 5, "object": 5}


# Stubs that are not called, and why.
LEFT_OUT = {"exponential.exponential": "pyright expands its type of 2^30 parts at each call"}

# (checker, file) whose valid calls may be refused, and why. A report's name starts with its checker's.
KNOWN = {
    ("mypy", "backlog__issues__add_issue.py"): "infers list[int] where the field takes list[str] | list[float]",
}

# Schemas that refer to themselves twice have examples of any size.
MOST_STEPS = 2_000
steps = 0


def resolve(root, reference):
    for part in reference.lstrip("#/").split("/") if reference != "#" else []:
        part = part.replace("~1", "/").replace("~0", "~")
        root = root[int(part)] if isinstance(root, list) else root[part]
    return root


def example(schema, root, depth=0):
    """A value that the schema accepts, as far as its keywords are those that servers use."""
    global steps
    steps += 1
    if steps > MOST_STEPS:
        raise ValueError("too large an example")
    if schema is True or not schema:
        return "x"
    if "$ref" in schema:
        return example(resolve(root, schema["$ref"]), root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return random.choice(schema["enum"])
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            base = {key: value for key, value in schema.items() if key != keyword}
            return example({**base, **random.choice(schema[keyword])}, root, depth + 1)
    if "allOf" in schema:
        merged = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            merged.update(resolve(root, part["$ref"]) if "$ref" in part else part)
        return example(merged, root, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = random.choice(kind)
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
    return of_kind(kind, schema, root, depth)


def of_kind(kind, schema, root, depth):
    if kind == "string":
        return "x" * max(1, schema.get("minLength", 1))
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        value = low + 1 if low is not None else high - 1 if high is not None else 3
        value = low if high is not None and value > high else value
        return int(value) if kind == "integer" else value
    if kind == "array":
        if isinstance(schema.get("prefixItems"), list):
            return tuple(example(item, root, depth + 1) for item in schema["prefixItems"])
        if depth > 6:
            return []
        count = max(1, schema.get("minItems", 1))
        return [example(schema.get("items", True), root, depth + 1) for _ in range(count)]
    if kind == "object":
        return of_object(schema, root, depth)
    return {"boolean": True}.get(kind)


def of_object(schema, root, depth):
    required = schema.get("required", [])
    value = {
        name: example(field, root, depth + 1)
        for name, field in schema.get("properties", {}).items()
        if name in required or (depth < 5 and random.random() < 0.5)
    }
    rest = schema.get("additionalProperties")
    if not schema.get("properties") and isinstance(rest, dict):
        names = schema.get("propertyNames", {}).get("enum", ["key"])
        value[names[0]] = example(rest, root, depth + 1)
    return value


def examples(schema):
    """Four, unless the schema is so broken that nothing can be made from it."""
    global steps
    for _ in range(4):
        steps = 0
        try:
            yield example(schema, schema)
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
            continue


def judgement(schema):
    """Tells whether the schema accepts a value; nothing is valid by a schema that is none."""
    schema = {key: rest for key, rest in schema.items() if key != "$schema"}
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except Exception:
        return lambda _: False
    validator = jsonschema.Draft202012Validator(schema)

    def lists(value):
        if isinstance(value, (tuple, list)):
            return [lists(item) for item in value]
        return {key: lists(item) for key, item in value.items()} if isinstance(value, dict) else value

    def is_valid(value):
        try:
            return validator.is_valid(lists(value))
        except Exception:  # a reference to nowhere
            return False

    return is_valid


def wrong(value, schema, is_valid):
    """Arguments with one value of the wrong type, and arguments without a required one."""
    for name in value:
        field = schema.get("properties", {}).get(name)
        if not isinstance(field, dict) or ("enum" not in field and not isinstance(field.get("type"), str)):
            continue
        spoiled = {**value, name: "never a member" if "enum" in field else WRONG.get(field["type"], 5)}
        if not is_valid(spoiled):
            yield spoiled
            break
    for name in schema.get("required", [])[:1]:
        yield {key: rest for key, rest in value.items() if key != name}


def identifiers(documentation):
    names = {}
    for line in documentation.splitlines():
        if match := re.match(r'- `([^`]+)`: .* Wire name: `"(.*)"`', line):
            try:
                names[json.loads(f'"{match[2]}"')] = match[1]
            except ValueError:  # a name of control characters, which is shown in words of our own
                continue
    return names


def write(tree, out):
    random.seed(1)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for stub in sorted(tree.rglob("*.pyi")):
        if not stub.with_suffix(".json").exists():
            continue
        schema = json.loads(stub.with_suffix(".json").read_text(encoding="utf-8")).get("inputSchema")
        if not isinstance(schema, dict):
            continue
        names = identifiers(stub.with_suffix(".md").read_text(encoding="utf-8"))
        module = ".".join(stub.relative_to(tree).with_suffix("").parts)
        if module in LEFT_OUT:
            continue
        lines = [f"from {module} import {stub.stem} as f"]

        def call(value, verdict):
            if not all(names.get(name, name).isidentifier() for name in value):
                return
            arguments = ", ".join(f"{names.get(name, name)}={item!r}" for name, item in value.items())
            lines.append(f"f({arguments})  # {verdict}")

        is_valid = judgement(schema)
        valid = [value for value in examples(schema) if isinstance(value, dict) and is_valid(value)]
        for value in valid:
            call(value, "good")
        for value in valid[:1]:
            for spoiled in wrong(value, schema, is_valid):
                call(spoiled, "bad")
        (out / f"{module.replace('.', '__')}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")


def judge(out, report):
    refused = {
        (pathlib.Path(match[1]).name, int(match[2]))
        for match in re.finditer(r"^\s*(\S+\.py):(\d+):.*\berror", report.read_text(encoding="utf-8"), re.M)
    }
    counts = {"good": 0, "bad": 0}
    mistakes, excused = [], []
    for file in sorted(out.glob("*.py")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            verdict = line.rsplit("# ", 1)[-1]
            if verdict not in counts:
                continue
            counts[verdict] += 1
            if ((file.name, number) in refused) != (verdict == "bad"):
                known = KNOWN.get((report.name.split("-")[0], file.name)) if verdict == "good" else None
                if known:
                    excused.append(f"{file.name}: {known}")
                else:
                    mistakes.append(f"mistake: {file.name}:{number}: {line[:200]}")
    excuses = f" (and, as known: {'; '.join(excused)})" if excused else ""
    print(f"{counts['good']} valid and {counts['bad']} wrong calls; judged differently: {len(mistakes)}{excuses}")
    print("\n".join(mistakes))
    sys.exit(bool(mistakes))


if __name__ == "__main__":
    if sys.argv[1] == "--judge":
        judge(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    else:
        write(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
