function inner(x) {
  return x.field.deeper;
}
return inner({});
