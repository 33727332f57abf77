/** Where a point is drawn, in pixels, and what stands beside it. */
export interface Named {
  x: number;
  y: number;
  text: string;
}

export interface Name {
  x: number;
  /** Of the line on which it is written. */
  y: number;
  anchor: 'start' | 'end';
}

const gap = 10;
const lineHeight = 14;
const characterWidth = 7;

/** Names beside their points, on the side with more room, each moved down until it covers no other. */
export function namesPlaced(points: readonly Named[], width: number): Name[] {
  const taken: { left: number; right: number; y: number }[] = [];
  const names: Name[] = [];
  const order = points.map((_, index) => index).sort((a, b) => points[a]!.y - points[b]!.y);
  for (const index of order) {
    const { x, y, text } = points[index]!;
    const length = text.length * characterWidth;
    const anchor = x < width / 2 ? 'start' : 'end';
    const at = anchor === 'start' ? x + gap : x - gap;
    const [left, right] = anchor === 'start' ? [at, at + length] : [at - length, at];
    let line = y;
    for (const other of [...taken].sort((a, b) => a.y - b.y)) {
      const beside = left >= other.right || right <= other.left;
      if (!beside && Math.abs(line - other.y) < lineHeight) line = other.y + lineHeight;
    }
    taken.push({ left, right, y: line });
    names[index] = { x: at, y: line, anchor };
  }
  return names;
}
