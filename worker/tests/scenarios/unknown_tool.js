return await github.create_isue({ title: "x" });
