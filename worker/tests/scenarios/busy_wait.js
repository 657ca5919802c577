const end = Date.now() + 10;
while (Date.now() < end);
