// Binds htm to preact: what the parts draw with.
import { Component, Fragment, h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
export { Fragment };

// memo makes a component that is drawn again only when a prop is another one.
export function memo(draw) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const names = Object.keys(next);
      return names.length !== Object.keys(this.props).length || names.some((n) => next[n] !== this.props[n]);
    }
    render(props) {
      return h(draw, props);
    }
  };
}
