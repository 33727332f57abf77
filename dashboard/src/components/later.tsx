import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { Outdated, type Part } from '../state/part';
import { ErrorPanel, Skeleton } from './ui';

/** What a script that is fetched only now shows. */
export function Later<T>({ part, children }: { part: Part<T>; children: (code: T) => ComponentChildren }) {
  const code = part.data.value;
  const error = part.error.value;
  const fetch = () => void part.fetch();
  useEffect(() => {
    if (part.data.value === null) fetch();
  }, [part]);
  if (code !== null) return <>{children(code)}</>;
  if (error instanceof Outdated) return <ErrorPanel error={error} retry={() => location.reload()} action="Reload" />;
  return error ? <ErrorPanel error={error} retry={fetch} /> : <Skeleton rows={10} />;
}
