return [await forge.ls('/github', { depth: 2 }), await forge.cat('/a.pyi', { lines: '1-3' }), await forge.search(['one', 'two'], { limit: 3, path: '/github' })];
