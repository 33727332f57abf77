import { useEffect, useRef } from 'preact/hooks';
import { helpOpen, shortcuts } from '../keys';
import { version } from '../state/session';

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const open = helpOpen.value;
  useEffect(() => {
    if (open) dialog.current?.showModal();
  }, [open]);
  if (!open) return null;
  return (
    <dialog
      ref={dialog}
      aria-labelledby="help-title"
      onClose={() => {
        helpOpen.value = false;
      }}
    >
      <h2 id="help-title">Keyboard</h2>
      <dl class="keys">
        {shortcuts.map(({ keys, does }) => (
          <div key={does}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <p class="faint">
        weir {version.value?.version} ·{' '}
        <a href="/openapi.json" target="_blank">
          API
        </a>
      </p>
      <div class="buttons">
        <button type="button" autofocus onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}
