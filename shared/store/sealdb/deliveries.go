package sealdb

// DeliveryName is the place of a delivery's body, for the sealer.
func DeliveryName(org, hookID, id string) []byte {
	return []byte("parley delivery|" + org + "|" + hookID + "|" + id)
}

// SealDelivery returns what is stored of a delivery's body.
func (s *Store) SealDelivery(org, hookID, id string, body []byte) []byte {
	if s.sealing == 0 {
		return body
	}
	return s.sealer.SealBytes(body, DeliveryName(org, hookID, id))
}
