return [true, false, !0, await github.raw({ json: 'false' })];
