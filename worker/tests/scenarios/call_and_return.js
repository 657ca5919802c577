const issue = await github.echo({ title: "a", labels: ["x"], n: 1 });
console.log("title", issue.title);
return issue;
