package io.teamwire;

import io.teamwire.v1.Message;

/**
 * A message out of the inbox.
 *
 * @param message the message
 * @param sequence its place in the inbox
 * @param deliveryCount how many sessions have delivered it or may have; over 1, an earlier process may have seen it
 * @param inbox the subscription that it came by
 */
public record Delivery(Message message, long sequence, int deliveryCount, Subscription inbox) {
    /** Says that the message is processed, and returns at once. See {@link Subscription#flush()}. */
    public void ack() {
        inbox.ack(message.getId());
    }
}
