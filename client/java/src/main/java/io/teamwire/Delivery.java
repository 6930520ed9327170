package io.teamwire;

import io.teamwire.v1.Message;

/**
 * A message from the inbox.
 *
 * @param message the message
 * @param sequence its sequence in the inbox
 * @param deliveryCount how many sessions have, or may have, delivered it; above 1, an earlier process may have seen it
 * @param inbox the subscription that delivered it
 */
public record Delivery(Message message, long sequence, int deliveryCount, Subscription inbox) {
    /** Acknowledges the message as processed. Returns at once; see {@link Subscription#flush()}. */
    public void ack() {
        inbox.ack(message.getId());
    }
}
