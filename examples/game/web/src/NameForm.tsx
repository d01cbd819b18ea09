import { type FormEvent, useState } from "react";

interface Props {
  button: string;
  initial?: string;
  isEnabled: boolean;
  onName: (name: string) => void;
}

/** Asks for a name. */
export function NameForm({ button, initial = "", isEnabled, onName }: Props) {
  const [name, setName] = useState(initial);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onName(name);
  };
  return (
    <form className="name-form" onSubmit={submit}>
      <input
        aria-label="Your name"
        placeholder="Your name"
        maxLength={20}
        required
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <button type="submit" className="main" disabled={!isEnabled}>
        {button}
      </button>
    </form>
  );
}
