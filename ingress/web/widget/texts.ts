// The widget's texts. No other module contains text that a visitor reads or hears.
import type { Labels } from "../kit/texts";

/**
 * A text in English, German and Spanish. A text with a count is a pair of a singular and a plural.
 * {0} and {1} stand for values.
 */
export type Row = readonly [string, string, string] | readonly [Pair, Pair, Pair];
type Pair = readonly [one: string, other: string];

const languages = ["en", "de", "es"] as const;

export const table = {
  chat: ["Chat", "Chat", "Chat"],
  greeting: ["How can I help?", "Wie kann ich helfen?", "¿En qué puedo ayudar?"],
  open: ["Open chat: {0}", "Chat öffnen: {0}", "Abrir el chat: {0}"],
  close: ["Close chat: {0}", "Chat schließen: {0}", "Cerrar el chat: {0}"],
  unread: [["{0} new message", "{0} new messages"], ["{0} neue Nachricht", "{0} neue Nachrichten"], ["{0} mensaje nuevo", "{0} mensajes nuevos"]],
  closePanel: ["Close chat", "Chat schließen", "Cerrar el chat"],
  newChat: ["New chat", "Neuer Chat", "Nuevo chat"],

  messages: ["Messages", "Nachrichten", "Mensajes"],
  message: ["Message", "Nachricht", "Mensaje"],
  write: ["Write a message", "Nachricht schreiben", "Escriba un mensaje"],
  send: ["Send", "Senden", "Enviar"],
  stop: ["Stop", "Anhalten", "Detener"],
  you: ["You:", "Sie:", "Usted:"],
  attached: ["Attached files", "Angehängte Dateien", "Archivos adjuntos"],
  suggestions: ["Suggestions", "Vorschläge", "Sugerencias"],
  answer: ["Answer:", "Antwort:", "Respuesta:"],

  sources: ["Sources", "Quellen", "Fuentes"],
  source: ["Source {0}: {1}", "Quelle {0}: {1}", "Fuente {0}: {1}"],
  page: ["page {0}", "Seite {0}", "página {0}"],
  done: ["Done", "Erledigt", "Hecho"],
  notDone: ["Not done", "Nicht erledigt", "Pendiente"],
  table: ["Table", "Tabelle", "Tabla"],

  thinking: ["Thinking", "Denkt nach", "Pensando"],
  reconnecting: ["Reconnecting", "Verbindung wird wiederhergestellt", "Restableciendo la conexión"],
  approval: ["Waiting for approval", "Wartet auf Freigabe", "Esperando una aprobación"],
  webSearch: ["Searching the web", "Sucht im Web", "Buscando en la web"],
  knowledge: ["Searching the documents", "Durchsucht die Dokumente", "Buscando en los documentos"],
  codeExecution: ["Running code", "Führt Code aus", "Ejecutando código"],
  using: ["Using {0}", "Verwendet {0}", "Usando {0}"],

  failed: ["No answer. Send your message again.", "Keine Antwort. Senden Sie die Nachricht noch einmal.", "No hay respuesta. Vuelva a enviar el mensaje."],
  cancelled: ["Answer stopped.", "Antwort angehalten.", "Respuesta detenida."],
  timedOut: [
    "The answer timed out. Send your message again.",
    "Die Antwort hat zu lange gedauert. Senden Sie die Nachricht noch einmal.",
    "La respuesta tardó demasiado. Vuelva a enviar el mensaje.",
  ],

  tryAgain: ["Try again", "Erneut versuchen", "Reintentar"],
  soon: ["in a moment", "in einem Moment", "en un momento"],
  unreachable: [
    "Can't reach the service. Check your connection and try again.",
    "Der Dienst ist nicht erreichbar. Prüfen Sie die Verbindung und versuchen Sie es noch einmal.",
    "No se puede acceder al servicio. Compruebe la conexión e inténtelo de nuevo.",
  ],
  overBudget: [
    "This chat has used up its budget. Try again later.",
    "Das Budget dieses Chats ist aufgebraucht. Versuchen Sie es später noch einmal.",
    "Este chat ha agotado su presupuesto. Inténtelo de nuevo más tarde.",
  ],
  tooMany: [
    "Too many messages. Try again {0}.",
    "Zu viele Nachrichten. Versuchen Sie es {0} noch einmal.",
    "Demasiados mensajes. Inténtelo de nuevo {0}.",
  ],
  busy: [
    "Service busy. Try again {0}.",
    "Der Dienst ist ausgelastet. Versuchen Sie es {0} noch einmal.",
    "El servicio está ocupado. Inténtelo de nuevo {0}.",
  ],
  gone: [
    "This chat is no longer available here. Reload the page to try again.",
    "Dieser Chat ist hier nicht mehr verfügbar. Laden Sie die Seite neu.",
    "Este chat ya no está disponible aquí. Recargue la página.",
  ],
  badFile: [
    "A file can't be used. Remove it, or attach it again.",
    "Eine Datei kann nicht verwendet werden. Entfernen Sie sie, oder hängen Sie sie erneut an.",
    "Un archivo no se puede usar. Quítelo o adjúntelo de nuevo.",
  ],
  refused: [
    "This message can't be sent. Change it, or start a new chat.",
    "Diese Nachricht kann nicht gesendet werden. Ändern Sie sie, oder beginnen Sie einen neuen Chat.",
    "Este mensaje no se puede enviar. Cámbielo o empiece un chat nuevo.",
  ],
} satisfies Record<string, Row>;

export type Text = keyof typeof table;

/** The texts in one language. */
export class Texts {
  /**
   * The language of the texts: the requested language if the widget has texts in it, and otherwise
   * English.
   */
  readonly language: (typeof languages)[number];
  /** The accessible names of the parts of an answer, in this language. */
  readonly labels: Labels;
  /** The locale in which numbers are formatted. */
  readonly locale: string;

  /**
   * The argument tag is a language tag such as es or de-CH. The tag also determines the format of
   * numbers.
   */
  constructor(tag: string) {
    const asked = tag.trim().replaceAll("_", "-");
    const language = languages.find((l) => l === asked.toLowerCase().split("-", 1)[0]);
    this.language = language ?? "en";
    this.locale = this.language;
    try {
      if (language) this.locale = new Intl.Locale(asked).baseName;
    } catch {
      // the tag is malformed after the language
    }
    this.labels = { done: this.say("done"), notDone: this.say("notDone"), table: this.say("table") };
  }

  /**
   * Returns a text with its values. If the text is a pair, the first value chooses between singular
   * and plural.
   */
  say(text: Text, ...values: (string | number)[]): string {
    return this.fill(table[text], ...values);
  }

  /** Returns a text of another table with its values filled in, as the function say does. */
  fill(row: Row, ...values: (string | number)[]): string {
    const found = row[languages.indexOf(this.language)]!;
    const one = () => new Intl.PluralRules(this.locale).select(Number(values[0])) === "one";
    const form = typeof found === "string" ? found : found[one() ? 0 : 1];
    return form.replace(/\{(\d)\}/g, (_, i: string) => {
      const value = values[Number(i)] ?? "";
      return typeof value === "number" ? new Intl.NumberFormat(this.locale).format(value) : value;
    });
  }

  /** Formats a time in the future, for example "in 3 minutes". */
  after(seconds: number | null): string {
    if (seconds === null) return this.say("soon");
    const format = new Intl.RelativeTimeFormat(this.locale);
    return seconds < 120 ? format.format(seconds, "second") : format.format(Math.ceil(seconds / 60), "minute");
  }
}

/**
 * Returns the language of an element, which is in the attribute lang of the element or of its
 * nearest ancestor.
 */
export function findLanguage(element: Element): string {
  for (let at: Node | null = element; at; at = at instanceof ShadowRoot ? at.host : at.parentNode) {
    const tag = at instanceof Element ? at.getAttribute("lang") : null;
    if (tag !== null) return tag;
  }
  return "";
}
