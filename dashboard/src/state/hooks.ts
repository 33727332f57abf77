import { useEffect, useMemo } from 'preact/hooks';
import type { Follower } from '../api/live';
import { live } from './session';

/** A follower of the stream for as long as the component is on screen; made anew when `key` changes. */
export function useFollower<T extends Follower>(make: () => T, key: string): T {
  const follower = useMemo(make, [key]);
  useEffect(() => live.follow(follower), [follower]);
  return follower;
}

/** The page's name in the window's title. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · weir`;
  }, [title]);
}
