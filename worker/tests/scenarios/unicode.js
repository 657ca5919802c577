console.log("grüße \u{1F600}");
return await github.echo({ "schlüssel": "wert \u2028 \" \\ \n" });
