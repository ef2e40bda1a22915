// The editor of the submission page: `kernelcupEditor.attach(textarea)` puts CodeMirror in front of a text area and
// keeps its text in step. It lives in a shadow root, where its styles are constructed sheets: the site's security
// policy allows no style element.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { cpp } from "@codemirror/lang-cpp";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { searchKeymap, search, highlightSelectionMatches } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--accent)" },
  { tag: [tags.comment, tags.meta, tags.processingInstruction], color: "var(--faint)" },
  { tag: [tags.string, tags.number, tags.bool], color: "var(--warn)" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.className)], fontWeight: "600" },
]);

const theme = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--panel)", border: "1px solid var(--faint)", borderRadius: "6px", fontSize: "13px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", minHeight: "24rem", maxHeight: "75vh", overflow: "auto" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { color: "var(--faint)", backgroundColor: "var(--panel)", border: "0" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--stripe)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft)" },
  ".cm-selectionMatch, .cm-searchMatch": { backgroundColor: "var(--warn-soft)" },
  ".cm-panels": { color: "var(--ink)", backgroundColor: "var(--stripe)", borderColor: "var(--line)" },
  ".cm-panel input, .cm-panel button": { font: "inherit", color: "inherit" },
});

// Typing over a selection is done here: Chromium would keep the style of what was there in a style attribute, which the
// security policy refuses.
const typeOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== "insertText" || !event.data || view.composing || view.state.selection.main.empty) return false;
    event.preventDefault();
    view.dispatch(view.state.update(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true }));
    return true;
  },
});

const languageOf = (name) => (/\.cuh?$/i.test(name) ? cpp() : python());

function attach(textarea, name) {
  const host = document.createElement("div");
  host.className = "editor";
  textarea.after(host);
  const root = host.attachShadow({ mode: "open" });
  const language = new Compartment();
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: textarea.value,
      extensions: [
        lineNumbers(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(),
        highlightSelectionMatches(), search({ top: true }), indentUnit.of("    "), EditorState.tabSize.of(4),
        keymap.of([indentWithTab, ...defaultKeymap, ...historyKeymap, ...searchKeymap]),
        language.of(languageOf(name)), syntaxHighlighting(colours), theme, typeOver,
        EditorView.contentAttributes.of({ "aria-label": "Code", spellcheck: "false", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          textarea.value = update.state.doc.toString();
          textarea.dispatchEvent(new Event("input", { bubbles: true }));
        }),
      ],
    }),
  });
  textarea.hidden = true;
  return {
    set(text) { view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }); },
    rename(next) { view.dispatch({ effects: language.reconfigure(languageOf(next)) }); },
  };
}

globalThis.kernelcupEditor = { attach };
