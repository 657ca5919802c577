console.log("a", 1, true);
console.log("");
console.log("two\nlines");
