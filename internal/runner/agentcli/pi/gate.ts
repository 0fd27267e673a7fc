// Written by Iris, anew before every start. Pi asks nobody before it calls a tool;
// this makes every call wait for a word from Iris, who asks the person or the
// policy. No word, a broken one or a stop is a refusal.
export default function (pi) {
	pi.on("session_start", (_event, ctx) => ctx.ui.setStatus("iris-gate", "on"));

	pi.on("tool_call", async (event, ctx) => {
		const call = JSON.stringify({ id: event.toolCallId, tool: event.toolName, input: event.input });
		const word = await ctx.ui.input("iris-gate", call, { signal: ctx.signal });
		let answer = {};
		try {
			answer = JSON.parse(word) ?? {};
		} catch {}
		if (answer.allow !== true) {
			return { block: true, reason: answer.reason || "This was not allowed." };
		}
		if (answer.input) {
			for (const key of Object.keys(event.input)) delete event.input[key];
			Object.assign(event.input, answer.input);
		}
	});

	// What people wrote meanwhile is handed over here, so that the model sees it
	// with the result.
	pi.on("tool_result", async (event, ctx) => {
		await ctx.ui.input("iris-next", event.toolCallId, { signal: ctx.signal });
	});
}
