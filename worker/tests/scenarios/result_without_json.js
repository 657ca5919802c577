return { a: [1, Infinity] };
