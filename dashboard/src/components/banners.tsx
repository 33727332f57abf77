import { span } from '../format';
import { now } from '../state/clock';
import { live, logOutFailure, version } from '../state/session';
import { Icon, icons } from './icons';

/** A connection that comes back within this is nobody's concern. */
const patience = 1000;

export function Banners() {
  const { state, since } = live.status.value;
  // Counted anew each second. The stream goes by the browser's clock, and `now` by the head's as it was known then.
  void now.value;
  const away = Date.now() - since;
  return (
    <>
      {version.value?.insecure && (
        <div class="banner banner-warn" role="status">
          <Icon path={icons.warn} />
          This head listens beyond loopback without TLS: tokens and results can be read on the network.
        </div>
      )}
      {logOutFailure.value !== null && (
        <div class="banner banner-failed" role="alert">
          <Icon path={icons.warn} />
          <span>Could not log out: {logOutFailure.value}</span>
          <button
            type="button"
            onClick={() => {
              logOutFailure.value = null;
            }}
          >
            Dismiss
          </button>
        </div>
      )}
      {state === 'lost' && away >= patience && (
        <div class="banner banner-lost" role="alert">
          <Icon path={icons.warn} />
          {/* An alert is read out again whenever it changes: what is hidden from that may. */}
          <span>
            Disconnected from the head<span aria-hidden="true"> for {span(away)}</span>. What you see is from before; it
            goes on by itself.
          </span>
        </div>
      )}
    </>
  );
}
