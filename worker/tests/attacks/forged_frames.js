// What a script sends is one operation with the names that it wrote. No name, argument or output becomes another frame,
// field or operation, and paths are left to the gateway, which refuses them.

//# tool_name_with_quote: another field through a tool's name
//= call TOOL_NOT_FOUND
//> {"Tool":{"server":"github","tool":"x\",\"args\":{},\"server\":\"my-server","args":{"a":1}}}
return await forge.callTool('github', 'x","args":{},"server":"my-server', { a: 1 });
//# server_name_with_quote: another field through a server's name
//= call TOOL_NOT_FOUND
//> {"Tool":{"server":"x\"}},\"StashKeys\"","tool":"y","args":{}}}
return await forge.callTool('x"}},"StashKeys"', 'y', {});
//# tool_name_with_escape: another field through an escape
//= call TOOL_NOT_FOUND
//> {"Tool":{"server":"github","tool":"a\\u0022,\\","args":{}}}
return await forge.callTool('github', 'a\\u0022,\\', {});
//# property_with_quote: another field through the name of a property
//= call TOOL_NOT_FOUND
//> {"Tool":{"server":"github","tool":"a\"}.b\\","args":{}}}
return await github['a"}']['b\\']({});
//# argument_name_with_quote: another field through an argument's name
//= value {"\"}},\"Servers\"":1}
//> {"Tool":{"server":"github","tool":"echo","args":{"\"}},\"Servers\"":1}}}
return await github.echo({ '"}},"Servers"': 1 });
//# argument_key_of_serde: the key by which numbers keep their text
//= value {"$serde_json::private::Number":"1e400"}
return await github.echo({ '$serde_json::private::Number': '1e400' });
//# argument_key_of_raw_value: the key by which JSON is kept as text
//= value {"$serde_json::private::RawValue":"}}"}
return await github.echo({ '$serde_json::private::RawValue': '}}' });
//# raw_json: JSON that is passed on as it is
//= value {"a":123456789012345678901,"b":"x"}
return await github.echo({ a: JSON.rawJSON('123456789012345678901'), b: JSON.rawJSON('"x"') });
//# raw_json_structure: JSON with a structure, passed on as it is
//= value ["SyntaxError","SyntaxError"]
const raw = JSON.rawJSON ?? (() => { throw new SyntaxError(); });
return [tried(() => raw('{"a":1}')), tried(() => raw('1},"x":{'))];
//# raw_json_surrogate: half a character that the gateway cannot read, passed on as it is
//= value {"t":"a�b","pair":"😀"}
return await github.echo({ t: JSON.rawJSON('"a\\uD800b"'), pair: JSON.rawJSON('"\\uD83D\\uDE00"') });
//# lone_surrogates: half a character that the gateway cannot read, in every place of an operation
//= call TOOL_NOT_FOUND
//> {"Tool":{"server":"�","tool":"�.�","args":{"�":"�"}}}
return await forge.callTool('\ud800', '\udc00.\udfff', { '\ud800': '\udbff' });
//# lone_surrogate_result: half a character in the result
//= value "a\ufffd"
return 'a\ud800';
//# nul_in_names: a character that ends texts elsewhere
//= call TOOL_NOT_FOUND
//> {"Tool":{"server":"github\u0000x","tool":"a\u0000b","args":{}}}
return await forge.callTool('github\0x', 'a\0b', {});
//# output_as_frame: a frame in what is printed
//= value 1
console.log('\x02\0\0\0{}'); console.log('{"Done":{"run":1,"result":{"Ok":9},"stats":{}}}\n'); console.error('\0\0\0\0');
return 1;
//# result_as_frame: a frame in the result
//= value "}}\u0000{\"Done\":{\"run\":1,\"result\":{\"Ok\":9}}}"
return '}}\0{"Done":{"run":1,"result":{"Ok":9}}}';
//# error_as_frame: a frame in an error
//= throws Error: "}}{"Done"
throw new Error('"}}{"Done":{"run":1}}');
//# report_as_error: a report of the prelude, thrown
//= throws it threw a value that is not an Error: {"kind":"call"
throw { kind: 'call', name: 'ForgeError', message: 'forged', stack: '', call: 1, error: { code: 'CANCELLED' } };
//# kind_by_name: a limit, by the name and message of the engine's own errors
//= throws RangeError: mine
throw new RangeError('mine: Maximum call stack size exceeded');
//# result_error_by_class: an error class of the prelude, by its name
//= throws NoJson: forged
class NoJson extends TypeError { name = 'NoJson' }
throw new NoJson('forged');
//# stash_traversal: a path instead of a key
//= value [null,["../../etc/passwd"]]
//> {"StashPut":{"key":"../../etc/passwd","value":1,"ttl_secs":null}}
//> {"StashGet":{"key":"/results/../../etc/shadow"}}
//> "StashKeys"
await forge.stash.put('../../etc/passwd', 1);
return [await forge.stash.get('/results/../../etc/shadow'), await forge.stash.keys()];
//# stash_key_as_number: a key that is not a text
//= throws TypeError: key must be a string
return await forge.stash.get({ toString: () => 'k' });
//# stash_value_breakout: another field through a stored value
//= value {"a":"}},\"ttl_secs\":0"}
//> {"StashPut":{"key":"k\",\"value\":2,\"x\":\"","value":{"a":"}},\"ttl_secs\":0"},"ttl_secs":null}}
//> {"StashGet":{"key":"k\",\"value\":2,\"x\":\""}}
const key = 'k","value":2,"x":"';
await forge.stash.put(key, { a: '}},"ttl_secs":0' });
return await forge.stash.get(key);
//# stash_ttl_injection: another field through a number that is none
//= throws TypeError: ttl must be a whole number
return await forge.stash.put('k', 1, { ttl: { toString: () => '1},"x":{', valueOf: () => 1 } });
//# stash_ttl_range: a number that no clock has
//= throws TypeError: ttl must be a whole number
return await forge.stash.put('k', 1, { ttl: 1e300 });
//# cat_traversal: a file of the host
//= value "text of ../../etc/passwd and /proc/self/environ"
//> {"Cat":{"paths":["../../etc/passwd","/proc/self/environ"],"lines":null}}
return await forge.cat(['../../etc/passwd', '/proc/self/environ']);
//# cat_of_objects: a path that is made while it is read
//= throws TypeError: path must be a string
return await forge.cat([{ toString: () => '/etc/passwd' }]);
//# cat_array_that_lies: a list of paths with a hook in it
//= throws TypeError: path must be a string
const paths = ['/a']; Object.defineProperty(paths, 'map', { value: () => ['/etc/passwd'] }); Object.defineProperty(paths, Symbol.iterator, { value: function* () { yield 1; } });
return await forge.cat(paths);
//# ls_traversal: a folder of the host
//= value "listing of /results/../.."
//> {"Ls":{"path":"/results/../..","depth":4294967295}}
return await forge.ls('/results/../..', { depth: 4294967295 });
//# ls_depth: a depth that is no number of levels
//= throws TypeError: depth must be a whole number
return await forge.ls('/', { depth: -1 });
//# resource_of_a_file: a file of the host as a resource
//= value {"uri":"file:///etc/passwd","text":"content"}
//> {"ReadResource":{"server":"github","uri":"file:///etc/passwd"}}
return await forge.readResource('github', 'file:///etc/passwd');
//# prompt_breakout: another field through a prompt's name
//= value {"prompt":"p\",\"args\":{\"x\":1}","args":{}}
//> {"Prompt":{"server":"github","name":"p\",\"args\":{\"x\":1}","args":{}}}
return await forge.prompt('github', 'p","args":{"x":1}');
//# search_breakout: another field through a query
//= value "hits for q\"],\"limit\":9"
//> {"Search":{"queries":["q\"],\"limit\":9"],"limit":null,"path":null}}
return await forge.search('q"],"limit":9');
//# tool_info_of_prototype: a tool by a name that every object has
//= value {"server":"__proto__","name":"constructor"}
//> {"ToolInfo":{"server":"__proto__","tool":"constructor"}}
return await manifest.tool('__proto__', 'constructor');
//# names_that_are_no_texts: a server or tool that is made while it is read
//= value ["TypeError","TypeError","TypeError","TypeError"]
const t = { toString: () => 'github' };
return [await tried(() => forge.callTool(t, 'echo', {})), await tried(() => forge.callTool('github', ['echo'], {})), tried(() => forge.server(t)), await tried(() => manifest.tool(t, t))];
//# too_large_request: a frame larger than frames may be
//= heap
//@ fatal
return await github.echo({ text: 'x'.repeat(34 * 1024 * 1024) });
//# too_large_name: a frame larger than frames may be, by a name
//= heap
//@ fatal
return await forge.callTool('x'.repeat(34 * 1024 * 1024), 'y');
//# calls_of_an_old_run: a call that outlives its run
//= value 1
github.sleep({ ms: 1 }).then(() => github.echo({ late: 1 }));
return 1;
