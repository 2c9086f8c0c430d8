// Explains why runs have no costs.
import * as texts from "../texts/parts";

/** Says that the offline model is free, and links to the settings with the prices of other models. */
export const Prices = () => texts.offlineModelIsFree("/docs/settings#models");
