// Package telegram is the way in and out over the Bot API of Telegram. It draws
// what a model wrote as the HTML of the Bot API: through the tree of the
// Markdown, so that what is sent is always well formed.
package telegram
