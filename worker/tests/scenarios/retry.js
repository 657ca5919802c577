for (let i = 0; i < 3; i++) {
  try {
    await (i < 2 ? github.fail({ i }) : github.echo({ i }));
    console.log(`ok ${i}`);
  } catch (e) {
    console.log(`${e.code} ${i}`);
  }
}
