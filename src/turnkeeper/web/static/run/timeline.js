// The conversation: a scrolling window over its items. It stays where the reader is, and follows only at the end.
import { Button } from "../lib/parts.js";
import { Icon } from "../lib/icons.js";
import { Component, html } from "../lib/preact.js";
import { language, t } from "../lib/words.js";
import { Item } from "./items.js";
import { down, fit, up } from "./window.js";

const NEAR_PX = 800;
const AT_END_PX = 48;

export class Timeline extends Component {
  state = { range: null, follows: true };

  componentDidMount() {
    // The box may become smaller (an answer is asked for) or its content larger (a word is added).
    this.observer = new ResizeObserver(() => this._settle());
    this.observer.observe(this.box);
    this.observer.observe(this.list);
    this.observer.observe(this.end);
    this._settle();
  }

  componentWillUnmount() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /** The topmost item that is seen, and where: the reader's place. */
  getSnapshotBeforeUpdate() {
    if (this.state.follows || !this.box) return null;
    const top = this.box.getBoundingClientRect().top;
    for (const child of this.list.children) {
      const place = child.getBoundingClientRect();
      if (place.bottom > top && place.height > 0) return { key: child.dataset.key, top: place.top };
    }
    return null;
  }

  componentDidUpdate(_props, _state, place) {
    if (place) {
      const item = [...this.list.children].find((child) => child.dataset.key === place.key);
      if (item) this.box.scrollTop += item.getBoundingClientRect().top - place.top;
    }
    this._settle();
  }

  get _range() {
    const { log } = this.props;
    return fit(this.state.range, log.base, log.base + log.items.length, this.state.follows);
  }

  _settle() {
    if (this.state.follows) this._goDown();
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this._look());
  }

  _goDown() {
    this.box.scrollTop = this.box.scrollHeight;
    this.top = this.box.scrollTop;
  }

  /** After every scroll: are there items to be taken in above or below? Is the reader at the end? */
  _look() {
    if (!this.box) return; // a scroll may be told after the page has gone
    const { log, loadOlder, isLoadingOlder } = this.props;
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    const range = this._range;
    const below = scrollHeight - scrollTop - clientHeight;
    const last = log.base + log.items.length;
    const isAtEnd = below < AT_END_PX && range.end === last;
    // Words that came since leave the end further down; only who has scrolled up does not follow any more.
    const follows = isAtEnd || (this.state.follows && scrollTop >= this.top);
    if (follows && !isAtEnd) this._goDown();
    if (follows !== this.state.follows) this.setState({ follows, range });
    if (scrollTop < NEAR_PX && range.start > log.base && !follows) this.setState({ range: up(range, log.base) });
    else if (below < NEAR_PX && range.end < last) this.setState({ range: down(range, last) });
    if (scrollTop < NEAR_PX && range.start === log.base && log.first > 1 && !isLoadingOlder) loadOlder();
  }

  _scrolled = () => {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this._look());
  };

  /** Who opens something wants to read it, not to be taken away from it. */
  _opens = (event) => {
    const fold = event.target.closest("summary")?.parentElement;
    if (fold && !fold.open) this.setState({ range: this._range, follows: false });
  };

  /** Whoever answers wants to see what comes of it. */
  toEnd() {
    this.setState({ follows: true, range: null });
  }

  _newest = () => {
    this.toEnd();
    this.box.focus({ preventScroll: true });
  };

  _top({ log, isLoadingOlder }) {
    if (log.first <= 1) return null;
    return html`<p class="older muted small">${isLoadingOlder ? t("run.older.loading") : t("run.older")}</p>`;
  }

  render({ log, answers, openId, tail }) {
    const { start, end } = this._range;
    const shown = log.items.slice(start - log.base, end - log.base);
    const isLast = end === log.base + log.items.length;
    return html`<div class="talk"><h2 class="visually-hidden">${t("run.conversation")}</h2>
      <div class=${openId ? "talk-box asks" : "talk-box"} ref=${(box) => (this.box = box)} onScroll=${this._scrolled}
        onClickCapture=${this._opens} tabindex="0" role="region" aria-label=${t("run.conversation")}>
        ${this._top(this.props)}
        <ol class="items" ref=${(list) => (this.list = list)}>${shown.map(
          (item) => html`<${Item} key=${item.key} item=${item} language=${language()}
            answer=${item.kind === "answer" ? answers.get(item.id) : undefined}
            isOpen=${item.kind === "question" && item.id === openId} />`,
        )}</ol>
        <div ref=${(end) => (this.end = end)}>${isLast && tail}</div>
      </div>
      ${!this.state.follows &&
      html`<${Button} class="newest" onClick=${this._newest}><${Icon} name="down" />${t("run.newest")}<//>`}
    </div>`;
  }
}
