return await github.raw({ json: '"plain text"' });
