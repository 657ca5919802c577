clearTimeout(setTimeout(() => {}, 60000));
await new Promise(() => {});
