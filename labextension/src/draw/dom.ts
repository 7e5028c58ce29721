// Makes elements without HTML strings: tags and attributes are ours, all other data is text. `morph` keeps unchanged nodes,
// so that focus, hover and selection survive ten frames a second.

type Attributes = Record<string, string | number | boolean | null | undefined>;
export type Child = Node | string | null | undefined | false;

const SVG = 'http://www.w3.org/2000/svg';

/** An HTML element. Attributes are set as text; null, undefined and false leave one out. */
export function h(tag: string, attributes: Attributes = {}, ...children: Child[]): HTMLElement {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  return fill(document.createElementNS(SVG, tag) as SVGElement, attributes, children);
}

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  return element;
}

/** Makes the children of `parent` equal to `wanted`, changing only differences. Listeners stay on unchanged nodes. */
export function morph(parent: Element, wanted: Child[]): void {
  const fresh = document.createDocumentFragment();
  fresh.append(...wanted.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  morphChildren(parent, fresh);
}

function morphChildren(parent: Node, wanted: Node): void {
  let old = parent.firstChild;
  let next = wanted.firstChild;
  while (next) {
    const after: ChildNode | null = next.nextSibling;
    if (!old) {
      parent.appendChild(next);
    } else {
      const following: ChildNode | null = old.nextSibling;
      if (!morphNode(old, next)) {
        parent.replaceChild(next, old);
      }
      old = following;
    }
    next = after;
  }
  while (old) {
    const following: ChildNode | null = old.nextSibling;
    parent.removeChild(old);
    old = following;
  }
}

function morphNode(old: Node, wanted: Node): boolean {
  if (old.nodeType !== wanted.nodeType || old.nodeName !== wanted.nodeName) {
    return false;
  }
  if (old instanceof Element && wanted instanceof Element) {
    for (const { name } of [...old.attributes]) {
      if (!wanted.hasAttribute(name)) {
        old.removeAttribute(name);
      }
    }
    for (const { name, value } of [...wanted.attributes]) {
      if (old.getAttribute(name) !== value) {
        old.setAttribute(name, value);
      }
    }
    morphChildren(old, wanted);
  } else if (old.nodeValue !== wanted.nodeValue) {
    old.nodeValue = wanted.nodeValue;
  }
  return true;
}
