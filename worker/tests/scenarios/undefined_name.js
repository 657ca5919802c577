const a = 1;
return gitlab.echo({});
