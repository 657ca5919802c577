console.log('a', 1, true);
console.log('');
console.log('line one\nline two');
return null;
