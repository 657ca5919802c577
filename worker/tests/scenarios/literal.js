const rows = forge.literal(`[{'id': 12345678901234567890, 'name': "O'Brien", 'paid': None}, {'sum': Decimal('1.50'), 1: (True, nan)}]`);
let refused;
try {
  forge.literal("no list");
} catch (error) {
  refused = error instanceof TypeError && error.message;
}
return [String(rows[0].id), rows[0].name, rows[0].paid, rows[1], forge.literal([]), refused];
