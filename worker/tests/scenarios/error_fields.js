const e = await github.fail({}).catch((e) => e);
return [e.code, e.message, e.retryable, e.suggested_fix ?? null, e.data];
