import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { useTitle } from '../state/hooks';
import type { Part } from '../state/part';
import { ErrorPanel, Skeleton } from './ui';

interface LaterProps<T> {
  part: Part<T>;
  children: (code: T) => ComponentChildren;
}

/** What a script that is fetched only now shows. */
export function Later<T>({ part, children }: LaterProps<T>) {
  const code = part.data.value;
  const error = part.error.value;
  useEffect(() => {
    if (part.data.value === null) void part.fetch();
  }, [part]);
  if (code !== null) return <>{children(code)}</>;
  // Whether another try of this page would fetch anything is up to the browser: a reload does.
  return error ? <ErrorPanel error={error} retry={() => location.reload()} action="Reload" /> : <Skeleton rows={10} />;
}

/** A whole page with a script of its own: it has its name before that has come. */
export function LaterPage<T>({ title, ...later }: LaterProps<T> & { title: string }) {
  useTitle(title);
  return (
    <>
      {later.part.data.value === null && <h1>{title}</h1>}
      <Later {...later} />
    </>
  );
}
