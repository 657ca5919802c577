return await github.raw({ json: '{"z": 1, "a": {"y": 2, "b": 3}}' });
