import { useEffect, useMemo } from 'preact/hooks';
import type { ReadonlySignal } from '@preact/signals';
import type { Follower } from '../live/stream';
import { live } from './session';

/** `gone` is true once there is nothing to follow any more. */
interface PageFollower extends Follower {
  readonly gone?: ReadonlySignal<boolean>;
}

/** A follower of the stream while the component is on screen and there is something to follow; one per `key`. */
export function useFollower<T extends PageFollower>(make: () => T, key: string): T {
  const follower = useMemo(make, [key]);
  const gone = follower.gone?.value ?? false;
  useEffect(() => (gone ? undefined : live.follow(follower)), [follower, gone]);
  return follower;
}

/** The page's name in the window's title. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · weir`;
  }, [title]);
}
