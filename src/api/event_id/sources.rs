//! Constructors for the ids of well-known sources.
//!
//! Each takes the id together with what the source promises it to be unique in. `_record` in a
//! name means: a broker's copy of an event, not the event. docs/sources.md says for each source
//! which field to take, when to acknowledge and how long it may deliver again.

use super::EventId;
use super::spelling::Kind;
use crate::base::error::Error;

impl EventId {
    /// A Kafka record by topic, partition and offset: a place in the broker's log, not an event.
    ///
    /// It catches what the *consumer* side repeats: rebalances, crashes before the offset was
    /// committed, rewinds. It cannot catch a producer that sent one event twice, for that makes
    /// two records; where producers put an id into the key, a header or the payload, use that
    /// through [`text`](Self::text) or [`parts`](Self::parts). A topic that is deleted and made
    /// again counts from zero, and a mirrored topic has offsets of its own: start a new
    /// generation, or put what tells them apart into the topic's name here.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if `topic` is empty, or the partition or the offset is
    /// negative: clients use negative numbers for "none". [`is_limit`](Error::is_limit) past
    /// 65,535 bytes in all.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::kafka_record("orders", 3, 42)?;
    /// assert_eq!(id.to_string(), "kafka_record(\"orders\", 3, 42)");
    /// assert!(EventId::kafka_record("orders", 3, -1).unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn kafka_record(topic: &str, partition: i32, offset: i64) -> Result<Self, Error> {
        let (Ok(partition), Ok(offset)) = (u32::try_from(partition), u64::try_from(offset)) else {
            return Err(Error::invalid(format!(
                "partition {partition}, offset {offset} is no place in a Kafka topic: take both \
                 from a record that was received"
            )));
        };
        let (partition, offset) = (partition.to_be_bytes(), offset.to_be_bytes());
        Self::spell(Kind::KafkaRecord, &[topic.as_bytes(), &partition, &offset])
    }

    /// The `Nats-Msg-Id` header that the publisher gave a JetStream message, in its stream.
    ///
    /// The publisher's own id, the same if it publishes the event again, even after JetStream's
    /// duplicate window has passed. Where a mirror or an aggregate is read, name the stream that
    /// the message was first published to.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if either is empty; [`is_limit`](Error::is_limit) past
    /// 65,535 bytes in all.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::jetstream_message_id("ORDERS", "order-17")?;
    /// assert_ne!(id, EventId::jetstream_message_id("REFUNDS", "order-17")?);
    /// assert!(EventId::jetstream_message_id("ORDERS", "").unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn jetstream_message_id(stream: &str, message_id: &str) -> Result<Self, Error> {
        let parts = [stream.as_bytes(), message_id.as_bytes()];
        Self::spell(Kind::JetStreamMessageId, &parts)
    }

    /// A JetStream message by stream and stream sequence: a place in the stream, not an event.
    ///
    /// It catches redelivery by the server, not a publisher that published twice; prefer
    /// [`jetstream_message_id`](Self::jetstream_message_id) where publishers set the header. Never
    /// pass the consumer sequence, which is new at every delivery. A stream that is deleted and
    /// made again counts from one, and a mirror or an aggregate has sequences of its own.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if `stream` is empty or `sequence` is zero, which no
    /// stored message has; [`is_limit`](Error::is_limit) past 65,535 bytes in all.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::jetstream_record("ORDERS", 42)?;
    /// assert_eq!(id.to_string(), "jetstream_record(\"ORDERS\", 42)");
    /// assert!(EventId::jetstream_record("ORDERS", 0).unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn jetstream_record(stream: &str, sequence: u64) -> Result<Self, Error> {
        if sequence == 0 {
            return Err(Error::invalid(
                "a JetStream sequence of 0 belongs to no stored message: take the stream sequence \
                 from the metadata of a message that was received",
            ));
        }
        let parts: [&[u8]; 2] = [stream.as_bytes(), &sequence.to_be_bytes()];
        Self::spell(Kind::JetStreamRecord, &parts)
    }

    /// An id that the publisher of an MQTT message put into it, on its topic.
    ///
    /// MQTT itself has no message ids: a packet identifier is a 16-bit number of one connection
    /// that is used again as soon as a handshake is over, and the DUP flag only says that a
    /// *packet* was sent before. So the publisher must add an id, as a user property (MQTT 5) or
    /// in the payload.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if either is empty; [`is_limit`](Error::is_limit) past
    /// 65,535 bytes in all.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::mqtt_publisher_id("plant/4/meter", "meter-9:2026-12-01T00:15")?;
    /// assert_eq!(id.to_string(), "mqtt_publisher_id(\"plant/4/meter\", \"meter-9:2026-12-01T00:15\")");
    /// assert!(EventId::mqtt_publisher_id("plant/4/meter", "").unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn mqtt_publisher_id(topic: &str, id: &str) -> Result<Self, Error> {
        Self::spell(Kind::MqttPublisherId, &[topic.as_bytes(), id.as_bytes()])
    }

    /// The `message-id` property of an AMQP message (0-9-1 or 1.0).
    ///
    /// The publisher sets it, if anybody does; RabbitMQ never does by itself. Where several
    /// publishers number independently, add who published with [`parts`](Self::parts). An AMQP 1.0
    /// id that is a UUID goes in as hyphenated lower-case text. Never pass a delivery tag: it
    /// numbers deliveries on one channel.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if it is empty; [`is_limit`](Error::is_limit) past 65,535
    /// bytes.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::amqp_message_id("6f1f0a6e-1c70-4d3c-9a55-0f5c9e0f7a11")?;
    /// assert_eq!(id.to_string(), "amqp_message_id(\"6f1f0a6e-1c70-4d3c-9a55-0f5c9e0f7a11\")");
    /// assert!(EventId::amqp_message_id("").unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn amqp_message_id(message_id: &str) -> Result<Self, Error> {
        Self::spell(Kind::AmqpMessageId, &[message_id.as_bytes()])
    }

    /// The `MessageId` that SQS gave a message: a queue's copy of an event, not the event.
    ///
    /// The same at every receive of one copy. A producer that sends again, or a redrive out of a
    /// dead-letter queue, makes a copy with another one; where producers put their own id into a
    /// message attribute or the body, use that through [`text`](Self::text). Never pass the
    /// receipt handle, which is new at every receive.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if it is empty; [`is_limit`](Error::is_limit) past 65,535
    /// bytes.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::sqs_record("5fea7756-0ea4-451a-a703-a558b933e274")?;
    /// assert_eq!(id, EventId::sqs_record("5fea7756-0ea4-451a-a703-a558b933e274")?);
    /// assert!(EventId::sqs_record("").unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn sqs_record(message_id: &str) -> Result<Self, Error> {
        Self::spell(Kind::SqsRecord, &[message_id.as_bytes()])
    }

    /// A Pub/Sub message by its full topic name and the `messageId` that the service gave it: a
    /// topic's copy of an event, not the event.
    ///
    /// The same at every delivery of one copy, on every subscription of the topic. A publisher
    /// that publishes again makes another copy; where publishers set an attribute with their own
    /// id, use that through [`text`](Self::text) or [`parts`](Self::parts). Never pass the ack id,
    /// which is new at every delivery.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if either is empty; [`is_limit`](Error::is_limit) past
    /// 65,535 bytes in all.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::pubsub_record("projects/shop/topics/orders", "2070443601311540")?;
    /// assert_ne!(id, EventId::pubsub_record("projects/shop/topics/refunds", "2070443601311540")?);
    /// assert!(EventId::pubsub_record("", "2070443601311540").unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn pubsub_record(topic: &str, message_id: &str) -> Result<Self, Error> {
        let parts = [topic.as_bytes(), message_id.as_bytes()];
        Self::spell(Kind::PubSubRecord, &parts)
    }

    /// The `id` of a Stripe event, `evt_…`.
    ///
    /// The same at every retry and every resend. Never pass the id of the object inside
    /// (`pi_…`, `in_…`), which many events share, nor the `Stripe-Signature` header, which is new
    /// at every attempt.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if it is empty; [`is_limit`](Error::is_limit) past 65,535
    /// bytes.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::stripe_event("evt_1NG8Du2eZvKYlo2CUI79vXWy")?;
    /// assert_eq!(id.to_string(), "stripe_event(\"evt_1NG8Du2eZvKYlo2CUI79vXWy\")");
    /// assert!(EventId::stripe_event("").unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn stripe_event(id: &str) -> Result<Self, Error> {
        Self::spell(Kind::StripeEvent, &[id.as_bytes()])
    }

    /// The `X-GitHub-Delivery` header of a GitHub webhook.
    ///
    /// A GUID of the event: a redelivery repeats it, and all webhooks that are subscribed to the
    /// event carry the same one. So if one consumer is fed by several webhooks on purpose (by a
    /// repository's and an organisation's, say) it handles the event once.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if it is empty; [`is_limit`](Error::is_limit) past 65,535
    /// bytes.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::github_delivery("72d3162e-cc78-11e3-81ab-4c9367dc0958")?;
    /// assert_eq!(id, EventId::github_delivery("72d3162e-cc78-11e3-81ab-4c9367dc0958")?);
    /// assert!(EventId::github_delivery("").unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn github_delivery(guid: &str) -> Result<Self, Error> {
        Self::spell(Kind::GithubDelivery, &[guid.as_bytes()])
    }

    /// The `webhook-id` header of a sender that follows Standard Webhooks.
    ///
    /// `sender` is a name you give the sender, since each sender numbers on its own; keep it for
    /// as long as claims are retained. Verify the signature first: the id is part of what is
    /// signed.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if either is empty; [`is_limit`](Error::is_limit) past
    /// 65,535 bytes in all.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::standard_webhook("billing-provider", "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W")?;
    /// assert_ne!(id, EventId::standard_webhook("mailer", "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W")?);
    /// assert!(EventId::standard_webhook("mailer", "").unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn standard_webhook(sender: &str, webhook_id: &str) -> Result<Self, Error> {
        let parts = [sender.as_bytes(), webhook_id.as_bytes()];
        Self::spell(Kind::StandardWebhook, &parts)
    }

    /// The `source` and `id` attributes of a CloudEvent, over whatever transport it came.
    ///
    /// The two together are what its producer keeps unique; `id` alone is not.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if either is empty, which the specification forbids too;
    /// [`is_limit`](Error::is_limit) past 65,535 bytes in all.
    ///
    /// ```
    /// use txinbox::EventId;
    ///
    /// let id = EventId::cloud_event("/shop/orders", "A234-1234-1234")?;
    /// assert_ne!(id, EventId::cloud_event("/shop/refunds", "A234-1234-1234")?);
    /// assert!(EventId::cloud_event("/shop/orders", "").unwrap_err().is_invalid());
    /// # Ok::<(), txinbox::Error>(())
    /// ```
    pub fn cloud_event(source: &str, id: &str) -> Result<Self, Error> {
        Self::spell(Kind::CloudEvent, &[source.as_bytes(), id.as_bytes()])
    }
}
